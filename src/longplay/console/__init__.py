"""The machines that games are played on: ALE, or a scripted fake without ROMs."""
