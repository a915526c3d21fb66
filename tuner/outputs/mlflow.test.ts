/**
 * Against a server that takes what MLflow's REST API documents, and nothing else: MLflow itself is
 * not run.
 */
import { afterEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { CliBox } from '../testing/run-cli.ts'
import { type Receiver, startReceiver } from './testing/receiver.ts'

const key = z.string().regex(/^[\w\-. /]{1,250}$/)
const pair = z.strictObject({ key, value: z.string().max(500) })
const id = z.string().min(1)
const bodies: Readonly<Record<string, z.ZodType>> = {
  'experiments/create': z.strictObject({ name: z.string() }),
  'runs/create': z.strictObject({
    experiment_id: id,
    run_name: z.string(),
    start_time: z.int(),
    tags: z.array(pair).max(100),
  }),
  'runs/log-batch': z.strictObject({
    run_id: id,
    metrics: z
      .array(z.strictObject({ key, value: z.number(), timestamp: z.int(), step: z.int() }))
      .max(1000),
    params: z.array(pair).max(100),
    tags: z.array(pair).max(100),
  }),
  'runs/update': z.strictObject({
    run_id: id,
    status: z.enum(['FINISHED', 'FAILED', 'KILLED']),
    end_time: z.int(),
  }),
}

interface Run {
  readonly name: string
  readonly parent?: string
  status: string
  readonly params: Record<string, string>
  readonly metrics: Record<string, number[]>
  readonly tags: Record<string, string>
}

type Pairs = readonly { key: string; value: string }[]

/**
 * MLflow's server, as far as the exporter talks to it.
 * @param known experiments that are there
 */
async function startMlflow(known: Map<string, string>) {
  const runs = new Map<string, Run>()
  const answer = (path: string, method: string, body: Buffer): { status: number; body: string } => {
    const name = path.replace('/base/api/2.0/mlflow/', '')
    const json = (value: unknown, status = 200) => ({ status, body: JSON.stringify(value) })
    if (method === 'GET' && name.startsWith('experiments/get-by-name?')) {
      const experiment = known.get(new URLSearchParams(name.split('?')[1]).get('experiment_name')!)
      return experiment === undefined
        ? json({ error_code: 'RESOURCE_DOES_NOT_EXIST' }, 404)
        : json({ experiment: { experiment_id: experiment } })
    }
    const parsed = bodies[name]?.safeParse(JSON.parse(body.toString()))
    if (method !== 'POST' || !parsed?.success)
      return json(
        { error_code: 'INVALID_PARAMETER_VALUE', message: parsed?.error?.message ?? path },
        400,
      )
    const given = parsed.data as {
      run_id: string
      name: string
      run_name: string
      status: string
      tags: Pairs
      params: Pairs
      metrics: { key: string; value: number }[]
    }
    switch (name) {
      case 'experiments/create':
        known.set(given.name, '7')
        return json({ experiment_id: '7' })
      case 'runs/create': {
        const tags = Object.fromEntries(given.tags.map((tag) => [tag.key, tag.value]))
        runs.set(`run-${runs.size}`, {
          name: given.run_name,
          parent: tags['mlflow.parentRunId'],
          status: 'RUNNING',
          params: {},
          metrics: {},
          tags,
        })
        return json({ run: { info: { run_id: `run-${runs.size - 1}` } } })
      }
      case 'runs/update':
        runs.get(given.run_id)!.status = given.status
        return json({})
      default: {
        const run = runs.get(given.run_id)!
        for (const { key, value } of given.metrics)
          run.metrics[key] = [...(run.metrics[key] ?? []), value]
        for (const { key, value } of given.params) {
          // Once written, a parameter is not changed.
          if (key in run.params) return json({ error_code: 'INVALID_PARAMETER_VALUE' }, 400)
          run.params[key] = value
        }
        for (const { key, value } of given.tags) run.tags[key] = value
        return json({})
      }
    }
  }
  const receiver = await startReceiver(({ path, method, body }) => answer(path, method, body))
  return { receiver, runs }
}

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

describe('MLflow', () => {
  let open: Receiver | undefined
  const box = new CliBox()
  afterEach(async () => {
    open?.stop()
    await box.end()
  })

  test('has the run, and each trial below it, with parameters, metrics and how it ended', async () => {
    const known = new Map<string, string>()
    const { receiver, runs } = await startMlflow(known)
    open = receiver
    const { code, stderr } = await box.run([
      ...search,
      '--out',
      `mlflow=http://${receiver.address}/base/`,
    ])
    expect(code, stderr).toBe(0)
    expect(stderr).not.toContain('mlflow=')
    expect([...known.keys()]).toEqual(['bert'])
    const [whole, ...below] = [...runs.values()]
    const { experiment, trials } = await box.stored()
    expect(whole).toMatchObject({
      name: experiment.id,
      status: 'FINISHED',
      params: { slo: 'p99 <= 50 ms' },
      tags: { 'tune.conclusion': 'simulated' },
    })
    expect(whole!.metrics.best_capacity_rps).toHaveLength(1)
    expect(below.map(({ parent, status }) => [parent, status])).toEqual(
      trials.map(() => ['run-0', 'FINISHED']),
    )
    for (const trial of trials) {
      const confirmation = trial.purpose === 'confirmation'
      const run = below.find(
        ({ name }) => name === `${confirmation ? 'confirmation' : 'trial'} ${trial.number}`,
      )!
      expect(run.params).toEqual(
        Object.fromEntries(
          Object.entries(trial.configuration).map(([name, value]) => [name, String(value)]),
        ),
      )
      if (confirmation) expect(run.metrics['confirm/slo_ms']!.length).toBeGreaterThan(0)
      else if (trial.state === 'complete')
        expect(run.metrics.estimate_rps).toEqual([trial.measurement.capacityRps])
    }
  })
})

test('what is no MLflow is named, and the result is whole', async () => {
  const receiver = await startReceiver(() => ({ status: 200, body: '<html>please log in</html>' }))
  const box = new CliBox()
  const { code, stdout, stderr } = await box.run([
    ...search,
    '--out',
    `mlflow=http://${receiver.address}`,
  ])
  receiver.stop()
  await box.end()
  expect(code).toBe(0)
  expect(stderr).toContain(
    'experiments/get-by-name was not answered with JSON: check that the URL is that of MLflow',
  )
  expect(stdout).toContain('batch')
})
