/**
 * Against a receiver of OTLP's JSON that takes what its protobuf definitions have, and nothing
 * else: no collector is run.
 */
import { expect, test } from 'vitest'
import { z } from 'zod'
import { CliBox } from '../testing/run-cli.ts'
import { startReceiver } from './testing/receiver.ts'

const nanos = z.string().regex(/^\d{19}$/)
const value = z.union([
  z.strictObject({ stringValue: z.string() }),
  z.strictObject({ intValue: z.union([z.int(), z.string()]) }),
  z.strictObject({ doubleValue: z.number() }),
  z.strictObject({ boolValue: z.boolean() }),
])
const attributes = z.array(z.strictObject({ key: z.string().min(1), value }))
const resource = z.strictObject({ attributes, droppedAttributesCount: z.int().optional() })
const scope = z.strictObject({ name: z.literal('tune'), version: z.string().optional() })
const hex = (letters: number) => z.string().regex(new RegExp(`^[0-9a-f]{${letters}}$`))
const span = z.strictObject({
  traceId: hex(32),
  spanId: hex(16),
  parentSpanId: hex(16).optional(),
  name: z.string().min(1),
  kind: z.literal(1),
  startTimeUnixNano: nanos,
  endTimeUnixNano: nanos,
  attributes,
  droppedAttributesCount: z.int(),
  events: z.array(
    z.strictObject({
      timeUnixNano: nanos,
      name: z.string(),
      attributes,
      droppedAttributesCount: z.int(),
    }),
  ),
  droppedEventsCount: z.int(),
  links: z.array(z.never()),
  droppedLinksCount: z.int(),
  status: z.strictObject({ code: z.int(), message: z.string().optional() }),
  traceState: z.string().optional(),
  flags: z.int().optional(),
})
const traces = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource,
      scopeSpans: z.array(
        z.strictObject({ scope, spans: z.array(span), schemaUrl: z.string().optional() }),
      ),
      schemaUrl: z.string().optional(),
    }),
  ),
})
const point = z.strictObject({
  attributes,
  startTimeUnixNano: nanos,
  timeUnixNano: nanos,
  asDouble: z.number(),
})
const metric = z.strictObject({
  name: z.string(),
  description: z.string(),
  unit: z.string(),
  gauge: z.strictObject({ dataPoints: z.array(point) }),
})
const metrics = z.strictObject({
  resourceMetrics: z.array(
    z.strictObject({
      resource,
      scopeMetrics: z.array(
        z.strictObject({ scope, metrics: z.array(metric), schemaUrl: z.string().optional() }),
      ),
      schemaUrl: z.string().optional(),
    }),
  ),
})

const search = [
  '--model',
  'bert',
  '--slo',
  '50ms',
  '--backend',
  'simulated',
  '--gpus',
  'T4',
  '--max-trials',
  '3',
]
const plain = (given: z.output<typeof attributes>) =>
  Object.fromEntries(given.map(({ key, value }) => [key, Object.values(value)[0]]))

test('a run is a trace, its trials the spans below it, its load steps metrics', async () => {
  const receiver = await startReceiver(({ path, body }) => {
    const schema = path === '/v1/traces' ? traces : path === '/v1/metrics' ? metrics : z.never()
    const parsed = schema.safeParse(JSON.parse(body.toString()))
    return parsed.success
      ? { status: 200, body: '{}' }
      : { status: 400, body: parsed.error.message.replace(/\s+/g, ' ') }
  })
  const box = new CliBox()
  const { code, stderr } = await box.run([...search, '--out', `otlp=http://${receiver.address}`])
  receiver.stop()
  expect(code, stderr).toBe(0)
  expect(stderr).not.toContain('otlp=')
  const { experiment, trials } = await box.stored()
  await box.end()

  const told = <T>(path: string, schema: z.ZodType<T>) =>
    receiver.heard
      .filter((one) => one.path === path)
      .map(({ body }) => schema.parse(JSON.parse(body.toString())))
  const spans = told('/v1/traces', traces).flatMap(({ resourceSpans }) =>
    resourceSpans.flatMap((r) => r.scopeSpans.flatMap((s) => s.spans)),
  )
  const whole = spans.find(({ parentSpanId }) => parentSpanId === undefined)!
  expect(plain(whole.attributes)).toMatchObject({
    'tune.experiment': experiment.id,
    'tune.slo': 'p99 <= 50 ms',
    'tune.conclusion': 'simulated',
  })
  const below = spans.filter((one) => one !== whole)
  expect(below.map((one) => [one.traceId, one.parentSpanId])).toEqual(
    trials.map(() => [whole.traceId, whole.spanId]),
  )
  for (const trial of trials) {
    const kind = trial.purpose === 'confirmation' ? 'confirmation' : 'trial'
    const one = below.find(({ name }) => name === `${kind} ${trial.number}`)!
    for (const [name, chosen] of Object.entries(trial.configuration))
      expect(plain(one.attributes)[`tune.configuration.${name}`]).toBe(chosen)
    expect(BigInt(one.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(one.startTimeUnixNano))
    expect(BigInt(one.startTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(whole.startTimeUnixNano))
  }

  const gauges = told('/v1/metrics', metrics).flatMap(({ resourceMetrics }) =>
    resourceMetrics.flatMap((r) => r.scopeMetrics.flatMap((s) => s.metrics)),
  )
  const units = new Map(gauges.map(({ name, unit }) => [name, unit]))
  expect(Object.fromEntries(units)).toMatchObject({
    'tune.load.slo_latency': 's',
    'tune.load.offered_requests': '{request}/s',
    'tune.load.error': '1',
    'tune.trial.price_dollars': '{USD}/h',
    'tune.best.capacity_requests': '{request}/s',
    'tune.spent_dollars': '{USD}',
    'tune.trials': '',
  })
  const counted = gauges
    .filter(({ name }) => name === 'tune.trials')
    .flatMap(({ gauge }) => gauge.dataPoints)
  expect(Math.max(...counted.map(({ asDouble }) => asDouble))).toBe(3)
  expect(counted.every(({ attributes: of }) => plain(of).experiment === experiment.id)).toBe(true)
})

test('what a receiver leaves out of what it takes is told, and the result is whole', async () => {
  const receiver = await startReceiver(() => ({
    status: 200,
    body: '{"partialSuccess":{"rejectedDataPoints":"4","errorMessage":"too old"}}',
  }))
  const box = new CliBox()
  const { code, stdout, stderr } = await box.run([
    ...search,
    '--out',
    `otlp=http://${receiver.address}`,
  ])
  receiver.stop()
  await box.end()
  expect(code).toBe(0)
  expect(stderr).toMatch(/otlp=http:\/\/127.0.0.1:\d+\/: .*[Pp]artial.*too old/)
  expect(stdout).toContain('batch')
})
