import { expect, test, vi } from 'vitest'
import { VirtualLoadGenerator } from '../../../load/virtual-generator.ts'
import type { Load } from '../../../model/load.ts'
import type { LoadRun } from '../../../model/load-run.ts'
import { QueueServer } from '../../../testing/queue-server.ts'
import { extractServiceLog } from '../../service-log/service-log.ts'
import { identifyDiscipline } from './identify-discipline.ts'
import { identifyWorkers } from './workers.ts'

const play = (load: Load): Promise<LoadRun> =>
  new VirtualLoadGenerator().play(
    {
      kind: 'virtual',
      server: new QueueServer({ seed: 5, servers: 2, maxBatch: 1, serviceMs: () => 12 }),
    },
    load,
    new AbortController().signal,
  )
const windowAt = async (rateRps: number) => {
  const run = await play({
    kind: 'open',
    rateRps,
    durationS: 3,
    arrivals: { kind: 'poisson' },
    seed: 3,
  })
  return { run, disturbed: [], log: extractServiceLog(run, 1) }
}

test('the same windows are looked at once, others anew', async () => {
  const windows = [await windowAt(100), await windowAt(130)]
  const loops = [await play({ kind: 'closed', connections: 20, durationS: 1 })]
  const beside = {
    systemCapacity: undefined,
    loopLogs: [extractServiceLog(loops[0]!, 1)],
    unloadedMs: 12,
    coalescingMs: 1,
  }
  const workersOf = vi.fn(identifyWorkers)
  const seen = identifyDiscipline(windows, loops, beside, workersOf)
  expect(seen?.workers).toBe(2)
  expect(identifyDiscipline([...windows], [...loops], { ...beside }, workersOf)).toBe(seen)
  expect(workersOf).toHaveBeenCalledTimes(1)
  identifyDiscipline(windows.slice(1), loops, beside, workersOf)
  identifyDiscipline(windows, [], beside, workersOf)
  identifyDiscipline(windows, loops, { ...beside, systemCapacity: 3 }, workersOf)
  expect(workersOf).toHaveBeenCalledTimes(4)
})
