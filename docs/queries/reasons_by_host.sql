-- Hosts with the most failed attempts, by reason and HTTP status.
SELECT host, reason, http_status, count(*) AS attempts, count(DISTINCT work_id) AS works
FROM attempts
WHERE reason <> 'ok'
GROUP BY ALL
ORDER BY attempts DESC
LIMIT 30
