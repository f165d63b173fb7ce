"""Shows a study in other tools while it runs: one seam, one small file for each tool."""
