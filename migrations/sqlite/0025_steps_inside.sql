-- The steps of a run that was over before it was first stored, in its own row: one write in place of one for each.
-- JSON, a list of lists, each with the columns of `steps` in their order but for the first.
ALTER TABLE executions ADD COLUMN steps TEXT;
