"""One run: its services, listing, planning, resume and clean-up."""
