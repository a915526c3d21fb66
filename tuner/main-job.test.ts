/** The main job, whole, on each kind of device that every machine has. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { CliBox, recommends } from './testing/run-cli.ts'

/**
 * Little time under load: what is found is right on any machine, how finely is tested elsewhere.
 */
const brief = ['--trial-time', '1s', '--confirm-time', '1s', '--time-limit', '60s', '--json']

describe('tune --model M --slo S', () => {
  let box: CliBox
  beforeEach(() => {
    box = new CliBox()
  })
  afterEach(() => box.end())

  test('emulated GPUs under real load: a recommendation, its files, and what is emulated', async ({
    skip,
  }) => {
    const args = ['--model', 'bert', '--slo', '80ms', '--gpus', 'T4', '--max-trials', '1', ...brief]
    const { code, stdout, stderr } = await box.run(args)
    await box.skipIfDisturbed(skip)
    expect(recommends, stderr).toContain(code)
    const document = JSON.parse(stdout)
    expect(document.provenance).toBe('emulated')
    expect(stderr).toContain('EMULATED')
    expect(document.best.configuration.gpu).toBe('T4')
    const csv = readFileSync(
      join(
        box.folder,
        document.files.find((f: string) => f.endsWith('trials.csv')),
      ),
      'utf8',
    )
    expect(csv.split('\r\n').length).toBeGreaterThan(3)
    const deployment = readFileSync(
      join(
        box.folder,
        document.files.find((f: string) => f.endsWith('deployment.yaml')),
      ),
      'utf8',
    )
    expect(deployment).toContain('kind: Deployment')
    expect(deployment).toContain('emulated')
  })

  test('real inference on the CPU: measured, and the cheapest of all that the space holds', async ({
    skip,
  }) => {
    const space = ['--cores', '1', '--batch', '1,8', '--sequence-length', '16']
    const args = ['--model', 'bert-tiny', '--slo', '150ms', '--devices', 'cpu', ...space, ...brief]
    const { code, stdout, stderr } = await box.run(args)
    await box.skipIfDisturbed(skip)
    expect(recommends, stderr).toContain(code)
    const document = JSON.parse(stdout)
    expect(document.provenance).toBe('measured')
    expect(document.caveats.join(' ')).not.toMatch(/emulated|simulated/i)
    const costs = [document.best, ...document.alternatives]
      .filter((c) => c.feasible)
      .map((c) => c.cost)
    // One that was measured once counts at the rate that it would be confirmed at: lower, the wider
    // its interval.
    expect(document.best.cost).toBeLessThanOrEqual(1.3 * Math.min(...costs))
    expect([document.best, ...document.alternatives]).toHaveLength(2)
  })
})
