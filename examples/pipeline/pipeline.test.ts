import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { inspectCgroups } from '../../trials/machine/cgroups.ts'
import { tune } from '../../tuner/library/tune-experiment.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-pipeline-example-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const { cpuParent } = inspectCgroups()

test.skipIf(cpuParent === undefined)('tunes three stages together, and reports each', async () => {
  const { recommendation, trials } = await tune({
    file: join(dirname(fileURLToPath(import.meta.url)), 'experiment.yaml'),
    experiment: {
      budget: { maxTrials: 2 },
      db: join(folder, 'tune.db'),
      out: join(folder, 'out'),
    },
  })
  expect(trials.filter(({ state }) => state === 'complete').length).toBeGreaterThanOrEqual(2)
  expect(recommendation.best).toBeDefined()
  const stages = recommendation.stages!
  expect(stages.map(({ stage }) => stage)).toEqual(['tokenise', 'embed', 'rank'])
  const [tokenise, embed, rank] = stages
  expect(tokenise!.visits).toBe(1)
  expect(embed!.visits).toBeCloseTo(1, 1)
  expect(rank!.visits).toBeGreaterThan(0.15)
  expect(rank!.visits).toBeLessThan(0.45)
  for (const { busyShare, meanMs } of stages) {
    expect(busyShare).toBeGreaterThan(0)
    expect(busyShare).toBeLessThanOrEqual(1.2)
    expect(meanMs).toBeGreaterThan(0)
  }
  expect(readdirSync(join(folder, 'running'))).toEqual([])
})
