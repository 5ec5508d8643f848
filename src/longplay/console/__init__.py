"""The machine being played: ALE, or a scripted stand-in without ROMs."""
