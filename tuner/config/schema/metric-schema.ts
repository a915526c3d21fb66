/** Schema of `metrics`: the server's own metrics to read under load. */
import { z } from 'zod'
import { parseMetric, portPattern } from '../../../profiler/prometheus.ts'
import { UnitError } from '../values/units.ts'
import { createCodec, number, numberText, optional, text } from './schema-parts.ts'

const placeForms = "a path, ':8002/metrics' or a URL"

const metricKeys = z.strictObject({
  name: text('the name of a metric').describe(
    'name as the server exports it: queue_depth, vllm:gpu_cache_usage_perc; for a histogram, the name before _bucket',
  ),
  labels: optional(
    z.record(z.string(), numberText, {
      error: 'expected name: value pairs',
    }),
    'labels that a series must have',
  ),
  max: optional(
    number,
    'bound above which a configuration is infeasible; default: none, the metric is only shown',
  ),
  from: optional(
    text(placeForms).refine((from) => !from.startsWith(':') || portPattern.test(from), {
      error: `expected ${placeForms}`,
    }),
    "place of the metrics: a path on the server, ':8002/metrics' on another port, or a URL; default: /metrics",
  ),
})
const metricForms = `a metric such as queue_depth, 'queue_depth{model="bert"} <= 20', or {name, labels, max, from}`
/** 'queue_depth', 'queue_depth{model="bert"} <= 20', 'queue_depth <= 20 from :8002/metrics'. */
const metricTextSchema = createCodec(
  text('the name of a metric'),
  (given): z.input<typeof metricKeys> => {
    const [, asked = given, from] = /^(.*\S)\s+from\s+([^\s{}"]+)\s*$/s.exec(given) ?? []
    const [, series = asked, bound] = /^(.*\}|[^{}]*?)\s*<=\s*([^{}]*)$/s.exec(asked) ?? []
    const named = parseMetric(series.trim())
    const max = bound === undefined ? undefined : Number(bound.trim() || Number.NaN)
    if (named === undefined || Number.isNaN(max)) throw new UnitError(`expected ${metricForms}`, '')
    return { ...named, ...(max !== undefined && { max }), ...(from !== undefined && { from }) }
  },
).pipe(metricKeys)
const metric = z.union([metricTextSchema, metricKeys], { error: `expected ${metricForms}` })
export const metrics = z.union([createCodec(metric, (metric) => [metric]), z.array(metric)], {
  error: `expected ${metricForms}, or a list of these`,
})
