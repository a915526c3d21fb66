import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { protocolFor } from '../../profiler/protocols/index.ts'
import { createLocalLauncher } from '../../trials/launchers/local/local-launcher.ts'
import { findTemplateProblems } from '../../trials/launchers/template-problems.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { createHostContext } from '../../tuner/config/host-context.ts'
import { loadExperiment } from '../../tuner/config/load-experiment.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-node-workers-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const machine = await inspectMachine()
const { predictor: template, space } = loadExperiment({
  file: join(dirname(fileURLToPath(import.meta.url)), 'experiment.yaml'),
  flags: machine.affinity.length < 2 ? { cores: '1' } : {},
  ...createHostContext(machine),
})
if (template.kind !== 'command') throw new Error('the experiment has a predictor of its own')
const launcher = createLocalLauncher({
  template,
  parameters: space.parameters,
  protocol: protocolFor('json', { path: template.path, expect: 'embedding' }),
  payload: { kind: 'generated', seed: 1, count: 4 },
  runDirectory: join(folder, 'experiment'),
  machine,
})

test('the experiment file is sound: every tuned value reaches the server', () =>
  expect(findTemplateProblems(template, space.parameters)).toEqual([]))

test.each([
  { threads: 1, maxBatch: 4, queueLimit: 16 },
  { threads: 2, maxBatch: 16, queueLimit: 128 },
])('launched with %j it has been given that, answers, and leaves nothing', async (knobs) => {
  const predictor = await launcher.launch(
    { cpuCores: 1, ...knobs },
    knobs.threads,
    new AbortController().signal,
  )
  try {
    const { target } = predictor
    if (target.kind !== 'http') throw new Error('not http')
    expect(await (await fetch(`${target.url}/healthz`)).json()).toEqual(knobs)
    const ask = (body: string | Uint8Array) =>
      fetch(target.url + target.path, { method: 'POST', body: Buffer.from(body) })
    const answers = await Promise.all(
      target.bodies.map(async ({ body }) => (await ask(body)).json()),
    )
    for (const answer of answers)
      expect(answer).toMatchObject({ embedding: expect.any(Array), batch: expect.any(Number) })
    expect((await ask('no JSON')).status).toBe(400)
  } finally {
    await predictor.stop()
  }
  expect(readdirSync(join(folder, 'running'))).toEqual([])
})
