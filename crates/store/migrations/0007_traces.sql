-- Where a trace goes on when work is taken out of a row: W3C traceparents; null without a collector of traces.

-- Of all requests that were merged into the job, newest first, as many as jobs::MAX_TRACEPARENTS.
ALTER TABLE jobs ADD COLUMN traceparents TEXT;
ALTER TABLE webhook_deliveries ADD COLUMN traceparent TEXT;
