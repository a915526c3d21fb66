import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { openReader } from '../../trials/store/index.ts'
import { ConfigError } from '../config/config-error.ts'
import type { ExperimentInput } from '../config/schema/experiment-schema.ts'
import type { TuneEvent } from '../loop/events.ts'
import { tune } from './tune-experiment.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-library-'))
afterAll(() => rmSync(folder, { recursive: true }))
afterEach(() => vi.restoreAllMocks())

const db = join(folder, 'own', 'tune.db')
const simulated = {
  model: 'bert',
  slo: '50ms',
  backend: 'simulated',
  space: { gpu: ['T4', 'L4'] },
  budget: { maxTrials: 3 },
  db,
} satisfies ExperimentInput

describe('tune', () => {
  test('runs an experiment, tells of it, keeps it, and prints nothing', async () => {
    const printed = [vi.spyOn(process.stdout, 'write'), vi.spyOn(process.stderr, 'write')]
    const events: TuneEvent[] = []
    const out = join(folder, 'results')
    const { experimentId, reason, detail, recommendation, trials, files } = await tune({
      experiment: { ...simulated, out },
      onEvent: (event) => events.push(event),
    })
    for (const stream of printed) expect(stream).not.toHaveBeenCalled()
    expect(reason).toMatch(/certain|max-trials|not-worthwhile/)
    expect(detail).not.toBe('')
    expect(recommendation).toMatchObject({
      experimentId,
      provenance: 'simulated',
      best: expect.anything(),
    })
    const searched = trials.filter(({ purpose }) => purpose !== 'confirmation')
    expect(events.filter(({ type }) => type === 'trial-finished')).toHaveLength(searched.length)
    expect(events.at(-1)?.type).toBe('recommended')
    expect(files).toHaveLength(3)
    expect(existsSync(join(out, 'recommendation.json'))).toBe(true)
    const store = await openReader(db)
    expect(await store.load(experimentId)).toMatchObject({
      experiment: { state: 'done' },
      trials: { length: trials.length },
    })
    await store.close()
  })

  test('lays the object over a file, writes no results unasked, and reads no TUNE_* variable', async () => {
    const file = join(folder, 'experiment.yaml')
    writeFileSync(
      file,
      'model: bert\nslo: 20ms\nbackend: simulated\nname: of the file\nspace: {gpu: [T4]}\n',
    )
    vi.stubEnv('TUNE_MAX_TRIALS', '1')
    const { recommendation, trials, files } = await tune({
      file,
      experiment: { slo: '60ms', db, budget: { maxTrials: 2 }, confirm: false },
    })
    vi.unstubAllEnvs()
    expect(recommendation).toMatchObject({ slo: { limitMs: 60 } })
    expect(trials).toHaveLength(2)
    expect(files).toEqual([])
  })

  test('an abort during the run ends it with what was measured; one before it is thrown', async () => {
    const { signal, ...controller } = interruptOnce()
    const { reason, trials } = await tune({
      experiment: simulated,
      signal,
      onEvent: controller.afterFirstTrial,
    })
    expect(reason).toBe('interrupted')
    expect(trials.length).toBeGreaterThan(0)
    await expect(
      tune({ experiment: simulated, signal: AbortSignal.abort(new Error('no more')) }),
    ).rejects.toThrow('no more')
  })

  test('names everything that is wrong at once, as its own error', async () => {
    // What has no types gives what it likes.
    const wrong = tune({
      experiment: { ...simulated, slo: 'soon', sampler: 'gpp' } as unknown as ExperimentInput,
    })
    await expect(wrong).rejects.toThrow(ConfigError)
    await expect(wrong).rejects.toMatchObject({
      problems: [
        {
          where: 'experiment',
          what: expect.stringContaining("'soon'"),
          hint: expect.stringContaining('50ms'),
        },
        { where: 'experiment', what: expect.stringContaining("'gpp'"), hint: 'did you mean gp?' },
      ],
    })
    await expect(tune({})).rejects.toThrow(/experiment: .*model/)
  })
})

function interruptOnce() {
  const controller = new AbortController()
  return {
    signal: controller.signal,
    afterFirstTrial: (event: TuneEvent) => {
      if (event.type === 'trial-finished') controller.abort(new Error('enough'))
    },
  }
}
