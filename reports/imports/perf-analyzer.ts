/** `perf_analyzer -f FILE`: a row for each load on one server. */

import { percentileName } from '../../profiler/model/slo.ts'
import { readHeaderLine, readTable } from '../../trials/table-text.ts'
import {
  mapCollectingErrors,
  parseFigure,
  requireFound,
  type ToolPoint,
  type ToolReader,
} from './tool-point.ts'

const throughputColumn = 'Inferences/Second'

export const perfAnalyzer: ToolReader = {
  tool: 'perf_analyzer',
  read(source, { metric, percentile }) {
    if (!readHeaderLine(source).includes(throughputColumn)) return undefined
    const { columns, rows } = readTable(source)
    const name = metric === 'e2e' ? `${percentileName(percentile)} latency` : `column of ${metric}`
    const latency = requireFound(
      columns.find((column) => column === name),
      `column '${name}'`,
      source.file,
      columns.filter((column) => /latency/.test(column)),
    )
    const byRate = columns.includes('Request Rate')
    return mapCollectingErrors(
      rows,
      ({ where, cells }): ToolPoint => ({
        where,
        configuration: {},
        load: byRate
          ? { requestRate: parseFigure(cells['Request Rate'], 'Request Rate', where) }
          : { concurrency: parseFigure(cells.Concurrency, 'Concurrency', where) },
        ratePerSecond: parseFigure(cells[throughputColumn], throughputColumn, where),
        assumption:
          'perf_analyzer counts inferences; tune assumes one item per request (no -b). With -b N, divide the rate by N',
        // In microseconds.
        latencyMs: parseFigure(cells[latency], latency, where) / 1000,
      }),
    )
  },
}
