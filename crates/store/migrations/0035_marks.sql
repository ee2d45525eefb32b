-- What could be told from nothing that was stored: which reviews are audits though a rule had opened them, which calibrations
-- are gone, how far events had arrived when they were counted, and which labelled objects a trial could not read any more.

-- When the object was drawn at random. Apart from the reason, because an open review of a rule becomes an audit too.
ALTER TABLE reviews ADD COLUMN audited_at TIMESTAMP;
UPDATE reviews SET audited_at = created_at WHERE reason = 'audit';
CREATE INDEX reviews_audited ON reviews (tenant_id, object_id, audited_at) WHERE audited_at IS NOT NULL;

-- Versions of a question whose key another question has taken: their calibrations went with it.
UPDATE signal_versions SET calibration_id = NULL
WHERE calibration_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM signals JOIN calibrations
      ON calibrations.tenant_id = signals.tenant_id AND calibrations.signal_id = signals.signal_id
    WHERE signals.tenant_id = signal_versions.tenant_id AND signals.key = signal_versions.key
      AND calibrations.calibration_id = signal_versions.calibration_id);
UPDATE signals SET calibration_id = NULL
WHERE calibration_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM calibrations
    WHERE calibrations.tenant_id = signals.tenant_id AND calibrations.signal_id = signals.signal_id
      AND calibrations.calibration_id = signals.calibration_id);

-- The first and the last event to arrive of each counter: only of hours with an event that an analysis had not read, events are
-- looked at. Not known of counters from before these columns.
ALTER TABLE event_counters ADD COLUMN first_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE event_counters ADD COLUMN last_seq BIGINT NOT NULL DEFAULT 9223372036854775807;

-- Labelled objects that a trial is not put to, because what stood when they were labelled cannot be read any more.
ALTER TABLE trials ADD COLUMN left_out BIGINT NOT NULL DEFAULT 0;
