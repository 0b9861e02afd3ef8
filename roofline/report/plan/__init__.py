"""The page of a capacity plan: `roofline.report.plan_page` puts it together."""
