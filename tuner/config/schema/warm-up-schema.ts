/** Schema of `load.warmUp`: a number of requests, a file of requests, or both. */
import { z } from 'zod'
import { absolutePath, count, createQuantity, optional, path } from './schema-parts.ts'

const warmUpKeys = z.strictObject({
  requests: optional(
    count(1, 'requests'),
    'number of requests; default: every request of the payload once',
  ),
  atOnce: optional(
    count(1, 'requests'),
    'number of requests sent concurrently, for servers that batch; default: 1',
  ),
  payload: optional(
    path('a path'),
    'warm-up requests, in the form of load.payload, relative to this file; default: the measured requests',
  ),
})
/** 100, or the path of a file. */
const warmUpText = createQuantity((given): z.output<typeof warmUpKeys> => {
  const requests = Number(given)
  return Number.isInteger(requests) && requests > 0
    ? { requests }
    : { payload: absolutePath(String(given)) }
}, 'a number of requests, or a file of them')
export const warmUp = z.union([warmUpText, warmUpKeys], {
  error: 'expected a number of requests, a file of them, or {requests, atOnce, payload}',
})
