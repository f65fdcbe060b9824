import { notFound } from '../org/api-error.ts';
import { type ApiAnswer, type ApiCall, type ApiContext, pickMethod } from './api-call.ts';
import { handleCollections } from './collections.ts';
import { handleComposite } from './composite.ts';
import { listResources, showLimits } from './discovery.ts';
import { handleQuery } from './query.ts';
import { handleSobjects } from './rows.ts';

function routeComposite(context: ApiContext, call: ApiCall): ApiAnswer {
  switch (call.path[1]) {
    case undefined:
      return pickMethod(call, { POST: handleComposite })(context, call, routeCall);
    case 'sobjects':
      return handleCollections(context, call);
    default:
      throw notFound();
  }
}

/**
 * Answers one call of the data API. Synchronous, so that no other call comes between its steps.
 * @throws ApiError for every refusal.
 */
export function routeCall(context: ApiContext, call: ApiCall): ApiAnswer {
  switch (call.path[0]) {
    case undefined:
      return listResources(context, call);
    case 'sobjects':
      return handleSobjects(context, call);
    case 'query':
    case 'queryAll':
      return handleQuery(context, call);
    case 'composite':
      return routeComposite(context, call);
    case 'limits':
      return showLimits(context, call);
    default:
      throw notFound();
  }
}
