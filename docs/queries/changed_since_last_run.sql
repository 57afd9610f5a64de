-- How did the works of the latest run end?
SELECT run_id, reason, count(*) AS works, round(sum(bytes) / 1e6, 1) AS mb, min(finished_at) AS first, max(finished_at) AS last
FROM outcomes
WHERE run_id = (SELECT max_by(run_id, finished_at) FROM outcomes)
GROUP BY run_id, reason
ORDER BY works DESC
