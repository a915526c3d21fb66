import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test, vi } from 'vitest'
import type { Configuration } from '../../search/types.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { experimentIn } from '../backends/testing/served.ts'
import { createProblem, loadPriceBook } from '../problem/problem.ts'
import { fakeStore } from '../testing/fakes.ts'
import { assemble } from './assemble.ts'

vi.mock('../../trials/machine/core-speed.ts', () => ({ measureCoreSpeed: () => 0.5 }))

const folder = mkdtempSync(join(tmpdir(), 'tune-assemble-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const onCores = { cpuCores: 1, batchSize: 1 }
const languageModel = { model: 'llama-3.2-1b', devices: 'emulated', space: { gpu: ['L4'] } }

const machine = await inspectMachine()
/** All that are here, and none of the load's own. */
const allCores = { gpu: 'A100-40GB', cpuCores: machine.affinity.length, batchSize: 64 }

test.each<[string, object, Configuration, number | undefined]>([
  ['local', { backend: 'local' }, onCores, 0.5],
  [
    'local, on all cores, of which the load takes a part',
    { backend: 'local', devices: 'emulated', space: { gpu: ['A100-40GB'] } },
    allCores,
    0.5,
  ],
  ['not in virtual time', { backend: 'simulated' }, onCores, undefined],
  [
    'not of a language model, whose steps are modelled apart',
    { backend: 'local', ...languageModel },
    { gpu: 'L4', ...onCores },
    undefined,
  ],
])(
  'what the built-in server is expected to do on cores is what cores as fast as these do, where it runs on these: %s',
  async (_, document, configuration, speed) => {
    const experiment = experimentIn(folder, {
      model: 'bert-tiny',
      devices: 'cpu',
      space: { cpuCores: [1] },
      db: 'tune.db',
      ...document,
    })
    const parts = await assemble(experiment, 'e', fakeStore(), machine)
    await parts.backend.close()
    const expected = createProblem(
      { ...experiment, ...(speed && { cores: { speed, count: machine.affinity.length } }) },
      await loadPriceBook(undefined),
    )
    expect(parts.problem.priorLogRate?.(configuration)).toBe(expected.priorLogRate?.(configuration))
    expect(parts.notices.some((notice) => notice.includes('0.5 times as fast'))).toBe(
      speed !== undefined,
    )
  },
)
