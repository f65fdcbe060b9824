import { historySources, historySubjects } from '../../api/history.ts';
import { type Core, defineFeature, type Started } from '../../feature.ts';
import { createHistory, createRequestHistory } from './history.ts';
import { type HistoryParts, historyRoutes } from './routes/history.ts';

export const history = defineFeature({
  name: 'history',
  tags: { History: 'History of a quote, a booking, a reservation or a hand-off.' },
  start,
  routes: (parts: HistoryParts, _cursors, _all, possible) => historyRoutes(parts, possible),
});

function start({ database, consumers, offers, records, resources }: Core): Started<HistoryParts> {
  const nameOf = (id: string) => consumers.directory.consumer(id)?.name;
  const known = offers.find(historySources) ?? [];
  return {
    routes: {
      historyBy(possible) {
        // Other sources say more about a step than its request.
        const sources = [...known, createRequestHistory(database, nameOf, possible)];
        return createHistory({ sources, records, resources });
      },
      subjects: offers.find(historySubjects) ?? [],
    },
  };
}
