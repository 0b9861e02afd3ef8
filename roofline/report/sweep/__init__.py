"""What the page of a sweep shows: what was swept, maps, fronts, the best, counts. A file each."""
