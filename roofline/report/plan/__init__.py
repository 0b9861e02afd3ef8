"""The page of a capacity plan: `roofline.report.plan.page` puts it together."""
