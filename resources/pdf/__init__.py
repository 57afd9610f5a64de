"""Read the metadata and first pages of PDFs, in child processes with limits of memory and time."""

from resources.pdf.inspector import PdfFacts, PdfInspector

__all__ = ["PdfFacts", "PdfInspector"]
