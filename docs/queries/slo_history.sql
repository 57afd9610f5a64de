-- History of the objectives and their values.
SELECT computed_at, scope, name, round(value, 4) AS value, target, ok
FROM metrics
WHERE target IS NOT NULL
ORDER BY computed_at DESC, scope, name
