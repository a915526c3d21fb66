/** `perf_analyzer -f FILE`: a row for each load on one server. */

import { percentileName } from '../../profiler/model/slo.ts'
import { readHeaderLine, readTable } from '../../trials/table-text.ts'
import { each, figure, type ToolPoint, type ToolReader, wanted } from './tool-point.ts'

const throughput = 'Inferences/Second'

export const perfAnalyzer: ToolReader = {
  tool: 'perf_analyzer',
  read(source, { metric, percentile }) {
    if (!readHeaderLine(source).includes(throughput)) return undefined
    const { columns, rows } = readTable(source)
    const name = metric === 'e2e' ? `${percentileName(percentile)} latency` : `column of ${metric}`
    const latency = wanted(
      columns.find((column) => column === name),
      `column '${name}'`,
      source.file,
      columns.filter((column) => /latency/.test(column)),
    )
    const byRate = columns.includes('Request Rate')
    return each(
      rows,
      ({ where, cells }): ToolPoint => ({
        where,
        configuration: {},
        load: byRate
          ? { requestRate: figure(cells['Request Rate'], 'Request Rate', where) }
          : { concurrency: figure(cells.Concurrency, 'Concurrency', where) },
        ratePerSecond: figure(cells[throughput], throughput, where),
        assumption:
          'perf_analyzer counts inferences; tune assumes one item per request (no -b). With -b N, divide the rate by N',
        // In microseconds.
        latencyMs: figure(cells[latency], latency, where) / 1000,
      }),
    )
  },
}
