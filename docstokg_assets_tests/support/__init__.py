"""Helpers that several test folders share: real servers, raw servers, builders and programs."""
