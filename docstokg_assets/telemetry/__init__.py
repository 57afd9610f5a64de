"""What the house tells about itself: sinks, manifest, lake, views, indicators and the report. It only observes."""
