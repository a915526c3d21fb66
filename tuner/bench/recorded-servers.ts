import { fileURLToPath } from 'node:url'
import { readTasks } from '../../search/bench/recorded-tables.ts'
import { createRecordedTable, type RecordedTable } from '../../search/replay/table.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration, Observation } from '../../search/types.ts'

/** Standard deviation of ln(rate) of one measurement. */
const noise = 0.03

export interface RecordedServer {
  /** Of the task: parvagpu/MODEL@LIMIT. */
  readonly name: string
  readonly table: RecordedTable
}

/**
 * The recorded batch servers as a load test would see them: the rate that a server of some largest
 * batch serves within the limit is the best of the batches up to it whose recorded latency keeps
 * it, none if even one request misses it; the constraint is the latency of one request.
 */
export function recordedServers(): RecordedServer[] {
  const tasks = readTasks(
    fileURLToPath(new URL('../../search/bench/tables', import.meta.url)),
  ).filter((t) => t.family === 'parvagpu')
  return tasks.map(({ task, rows }) => {
    const recorded = createRecordedTable(task, rows)
    const { constraintAtRate: _, ...problem } = recorded.problem
    const smaller = (c: Configuration) =>
      recorded.configurations.filter(
        (o) => sameServer(o, c) && Number(o.batchSize) <= Number(c.batchSize),
      )
    const truth = new Map(recorded.configurations.map((c) => [configurationKey(c), servedBy(c)]))

    function servedBy(configuration: Configuration): Observation {
      const own = recorded.measure(configuration)
      if (own.state === 'infeasible') return own
      const measured = smaller(configuration).map((c) => recorded.measure(c))
      const single = measured.find((o) => o.configuration.batchSize === 1)
      const held = measured.flatMap((o) =>
        o.state === 'complete' && o.constraint!.value <= problem.constraintLimit!
          ? [o.rate!.value]
          : [],
      )
      const constraint = single?.state === 'complete' ? single.constraint : undefined
      return {
        configuration,
        state: 'complete',
        rate: { value: Math.max(0, ...held) },
        ...(constraint ? { constraint } : {}),
      }
    }

    return {
      name: task.name,
      table: {
        configurations: recorded.configurations,
        problem,
        measure(configuration, rng) {
          const exact = truth.get(configurationKey(configuration))!
          if (exact.state !== 'complete' || !rng) return exact
          const drawn = (value: number) => ({
            value: value * Math.exp(noise * rng.normal()),
            logSd: noise,
          })
          return {
            ...exact,
            rate: exact.rate && (exact.rate.value > 0 ? drawn(exact.rate.value) : exact.rate),
            constraint: exact.constraint && drawn(exact.constraint.value),
          }
        },
      },
    }
  })
}

const sameServer = (a: Configuration, b: Configuration): boolean =>
  a.gpuSlices === b.gpuSlices && a.processes === b.processes
