"""Batch limits over contexts: what memory holds, where compute binds, what an SLO allows, and which is met first."""
