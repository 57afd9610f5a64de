-- Which hosts answer badly, and with what?
SELECT host, reason, http_status, count(*) AS attempts, count(DISTINCT work_id) AS works
FROM attempts
WHERE reason <> 'ok'
GROUP BY ALL
ORDER BY attempts DESC
LIMIT 30
