import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import type { ServerCalibration } from '../../../../trials/devices/server-calibration.ts'
import { saveCalibration } from '../../../../trials/store/index.ts'
import { loadExperiment } from '../../../config/load-experiment.ts'
import { nameServer } from '../../../problem/calibration.ts'
import { gpuMachines, plantGpus } from '../../../testing/gpu-machines.ts'
import { CliBox } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'

const tune = new WarmCli()
afterAll(() => tune.end())

let box: CliBox
beforeEach(() => {
  box = new CliBox()
})
afterEach(() => box.end())

const experiment = `
model: {name: bert-tiny, architecture: BERT_Tiny}
slo: 200ms
predictor:
  command: [./serve, '\${port}', '\${batchSize}']
space: {batchSize: [1, 4, 16]}
db: tune.db
`

/** The how-to guide measures one for real (docs.test.ts); here is what is done with it. */
test('a calibration is listed, used by estimate and run, and forgotten', async () => {
  const machine = plantGpus(box.folder, gpuMachines.a10)
  const run = (args: readonly string[]) => tune.run(box, args, machine)
  writeFileSync(join(box.folder, 'e.yaml'), experiment)
  const unknown = await run(['estimate', '-f', 'e.yaml'])
  expect(unknown.code).toBe(2)
  expect(unknown.stderr).toMatch(/cannot estimate.*\n.*tune calibrate/)

  const { predictor } = loadExperiment({
    file: join(box.folder, 'e.yaml'),
    flags: {},
    environment: {},
    cwd: box.folder,
    machine: { cpuCores: 2, gpus: ['A10'] },
  })
  const kept: ServerCalibration = {
    name: 'serve-bert-tiny-a10',
    server: nameServer(predictor),
    model: 'bert-tiny',
    device: 'A10',
    measuredAt: '2026-11-20T10:00:00.000Z',
    configuration: { gpu: 'A10', batchSize: 16 },
    points: [1, 4, 16].map((batch) => ({ batch, latencyMs: 4 + 0.1 * batch, processes: 1 })),
    memory: [],
  }
  await saveCalibration(join(box.folder, 'tune.db'), kept)

  const listed = await run(['calibrate', '--list', '--db', 'tune.db'])
  expect(listed.stdout).toContain(kept.name)
  const estimated = await run(['estimate', '-f', 'e.yaml'])
  expect(estimated.code).toBe(0)
  expect(estimated.stdout).toContain(`Anchored on ${kept.name}`)
  const dry = await run(['-f', 'e.yaml', '--dry-run'])
  expect(dry.stdout).toContain(`Prior anchored on ${kept.name}: 3 sizes`)
  const elsewhere = await run([
    'estimate',
    '--model',
    'bert-tiny',
    '--slo',
    '50ms',
    '--gpus',
    'L4',
    '--db',
    'tune.db',
    '--calibration',
    kept.name,
  ])
  expect(elsewhere.stdout).toMatch(/L4.*req\/s ±/)

  const wrong = await run(['estimate', '-f', 'e.yaml', '--calibration', 'never'])
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).toContain(`the store has: ${kept.name}`)
  expect((await run(['calibrate', '--clear', kept.name, '--db', 'tune.db'])).stdout).toBe(
    `removed ${kept.name}\n`,
  )
  expect((await run(['calibrate', '--list', '--db', 'tune.db'])).stdout).toBe('no calibrations\n')
})
