import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import type { ServerCalibration } from '../../../../trials/devices/server-calibration.ts'
import { gpuMachines, plantGpus } from '../../../testing/gpu-machines.ts'
import { CliBox } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'

const cli = fileURLToPath(new URL('../../../../dist/tuner/cli.js', import.meta.url))

/** For what loads nothing. */
const tune = new WarmCli()
afterAll(() => tune.end())

let box: CliBox
beforeEach(() => {
  box = new CliBox()
})
afterEach(() => box.end())

/**
 * A foreign server whose times are known: the built-in one, emulating a T4, which says so to
 * nobody; its model under another of its names.
 */
const foreign = (main: string) => `
model: {name: bert-tiny, architecture: BERT_Tiny}
slo: 200ms
predictor:
  command: [${JSON.stringify(process.execPath)}, ${JSON.stringify(main)}, predictor, --model, bert-tiny, --engine, emulated, --gpu, T4,
    --cpu-cores, '1', --port, '\${port}', --batch-size, '\${batchSize}', --max-delay-ms, '0']
space: {batchSize: [1, 4, 16]}
db: tune.db
`

test('a server is measured, kept, listed, used by estimate and run, and forgotten', {
  timeout: 240_000,
}, async () => {
  const machine = plantGpus(box.folder, gpuMachines.a10)
  const run = (args: readonly string[]) => tune.run(box, args, machine)
  writeFileSync(join(box.folder, 'e.yaml'), foreign(cli))
  const unknown = await run(['estimate', '-f', 'e.yaml'])
  expect(unknown.code).toBe(2)
  expect(unknown.stderr).toMatch(/cannot estimate.*\n.*tune calibrate/)

  const measured = await box.run(
    ['calibrate', '-f', 'e.yaml', '--batches', '1,4,16', '--json'],
    machine,
  )
  expect(measured.stderr).toMatch(/batch 1: .*ms\n.*batch 4: .*ms\n.*batch 16: .*ms/)
  expect(measured.code).toBe(0)
  const kept = JSON.parse(measured.stdout) as ServerCalibration
  expect(kept).toMatchObject({
    model: 'bert-tiny',
    device: 'A10',
    configuration: { gpu: 'A10', batchSize: 16 },
  })
  expect(kept.points.map((p) => p.batch)).toEqual([1, 4, 16])

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
