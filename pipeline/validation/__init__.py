"""Phases 4.5 and 5.5: a verifier and a refuter judge every document by rows.

Models write verdicts; deterministic code decides what they amount to: ``envelope`` reads a reply,
``finalise`` and ``evidence`` check a verdict, ``combine`` merges the two, ``phase`` runs them all.
"""
