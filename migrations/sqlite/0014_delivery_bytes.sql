-- What stands before the event's data in the bytes of a delivery that leaves nothing of it out: the data is kept
-- once, with the event, however many webhooks hear of it. Otherwise the bytes are in body.
ALTER TABLE deliveries ADD COLUMN head TEXT;
