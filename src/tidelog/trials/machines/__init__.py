"""The processes of a trial, where they run and keep their files, and that none is left behind."""
