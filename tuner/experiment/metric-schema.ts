/** The server's own metrics as they are written: `metrics`. */
import { z } from 'zod'
import { text } from './schema-parts.ts'

const metricKeys = z.strictObject({
  name: text('the name of a metric').describe(
    'as the server writes it: queue_depth, vllm:gpu_cache_usage_perc; of a histogram the name before _bucket',
  ),
  labels: z
    .record(z.string(), z.union([z.string(), z.number().transform(String)]), { error: 'expected name: value pairs' })
    .optional()
    .describe('series that have all of these'),
  max: z.number({ error: 'expected a number' }).optional().describe('over this a configuration is infeasible; default: it is only shown'),
  from: text('a path or a URL').optional().describe('where they are: a path on the server, or a URL of another port, default /metrics'),
})
const one = z.union([text('the name of a metric').transform((name): z.output<typeof metricKeys> => ({ name })), metricKeys], {
  error: 'expected the name of a metric, or {name, labels, max, from}',
})
export const metrics = z.union([one.transform((metric) => [metric]), z.array(one)], {
  error: 'expected a list of metrics, or of {name, labels, max, from}',
})
