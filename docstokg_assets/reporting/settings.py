"""The bounds of the checks of a year. A module of its own: loading the configuration imports no database."""

from __future__ import annotations

from pydantic import Field, model_validator

from resources.settings import Section


class CheckSettings(Section):
    coverage_warn_below: float = Field(
        0.95, ge=0, le=1, description="warn below this share of finished works of a year"
    )
    coverage_fail_below: float = Field(0.5, ge=0, le=1, description="fail below this share of finished works of a year")
    unanswered_warn_above: float = Field(
        0.25, ge=0, le=1, description="warn above this share of unanswered requests in a pass"
    )
    unanswered_fail_above: float = Field(
        0.5, ge=0, le=1, description="fail above this share of unanswered requests in a pass"
    )
    listing_warn_below: float = Field(
        0.9, ge=0, le=1, description="warn when a listing has less than this share of the one before"
    )
    listing_fail_below: float = Field(
        0.5, ge=0, le=1, description="fail when a listing has less than this share of the one before"
    )
    audit_bytes: int = Field(
        1_000_000_000, gt=0, description="bytes of stored files that each check of a year reads again"
    )

    @model_validator(mode="after")
    def _warns_before_it_fails(self) -> CheckSettings:
        if self.coverage_fail_below > self.coverage_warn_below:
            raise ValueError("coverage_fail_below must not be above coverage_warn_below")
        if self.listing_fail_below > self.listing_warn_below:
            raise ValueError("listing_fail_below must not be above listing_warn_below")
        if self.unanswered_fail_above < self.unanswered_warn_above:
            raise ValueError("unanswered_fail_above must not be below unanswered_warn_above")
        return self
