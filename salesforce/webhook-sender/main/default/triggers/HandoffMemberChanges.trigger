/** Notifies the gateway of every Contact with an External ID that was made, changed, deleted or restored. */
trigger HandoffMemberChanges on Contact (after insert, after update, after delete, after undelete) {
    List<HandoffWebhook.Event> events = new List<HandoffWebhook.Event>();
    String eventType = Trigger.isDelete ? 'member.deleted' : Trigger.isUpdate ? 'member.updated' : 'member.created';
    for (Contact changed : Trigger.isDelete ? Trigger.old : Trigger.new) {
        if (String.isBlank(changed.External_Id__c)) continue;
        events.add(new HandoffWebhook.Event(eventType, changed.External_Id__c));
    }
    // A queueable job makes 100 callouts at most, and a chunk of a bulk load has 200 records.
    for (Integer first = 0; first < events.size(); first += HandoffWebhook.EVENTS_A_JOB) {
        List<HandoffWebhook.Event> part = new List<HandoffWebhook.Event>();
        Integer stop = Math.min(first + HandoffWebhook.EVENTS_A_JOB, events.size());
        for (Integer i = first; i < stop; i++) part.add(events[i]);
        // From batch and queueable jobs only one job may be queued: what does not fit is left to the sweep.
        if (Limits.getQueueableJobs() < Limits.getLimitQueueableJobs()) System.enqueueJob(new HandoffWebhook(part, 0));
    }
}
