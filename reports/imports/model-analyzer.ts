/**
 * Triton's Model Analyzer: metrics-model-inference.csv, a row for each configuration of a model and
 * each load. Closed loop by concurrency, or by request rate.
 */

import { percentileName } from '../../profiler/model/slo.ts'
import { readHeaderLine, readTable } from '../../trials/table-text.ts'
import {
  mapCollectingErrors,
  parseFigure,
  requireFound,
  type ToolPoint,
  type ToolReader,
} from './tool-point.ts'

const throughputColumn = 'Throughput (infer/sec)'
const pathColumn = 'Model Config Path'
const constraintsColumn = 'Satisfies Constraints'

export const modelAnalyzer: ToolReader = {
  tool: 'Model Analyzer',
  read(source, { metric, percentile }) {
    if (!readHeaderLine(source).includes(pathColumn)) return undefined
    const { columns, rows } = readTable(source)
    const name =
      metric === 'e2e' ? `${percentileName(percentile)} Latency (ms)` : `column of ${metric}`
    const latency = requireFound(
      columns.find((column) => column === name),
      `column '${name}'`,
      source.file,
      columns.filter((column) => /latency/i.test(column)),
    )
    requireFound(
      columns.find((column) => column === throughputColumn) ?? undefined,
      `column '${throughputColumn}'`,
      source.file,
      columns,
    )
    return mapCollectingErrors(rows, ({ where, cells }): ToolPoint => {
      const plain = (column: string) =>
        /^\d+$/.test(cells[column] ?? '') ? Number(cells[column]) : cells[column]
      // '2:GPU', '1/GPU', '2/GPU + 1/CPU': the count in front. Of several models there is one for
      // each: the path tells them apart.
      const instances = Number(/^\s*(\d+)[:/][^,]*$/.exec(cells['Instance Group'] ?? '')?.[1])
      const batch = plain('Max Batch Size')
      return {
        where,
        configuration: {
          configuration: cells[pathColumn] ?? '',
          ...(typeof batch === 'number' ? { maxBatchSize: batch } : {}),
          ...(Number.isFinite(instances) ? { instances } : {}),
        },
        load: Object.fromEntries(
          (
            [
              ['clientBatch', 'Batch'],
              ['concurrency', 'Concurrency'],
              ['requestRate', 'Request Rate'],
            ] as const
          ).flatMap(([key, column]) =>
            cells[column] === undefined ? [] : [[key, plain(column) ?? '']],
          ),
        ),
        ...(cells.Model ? { model: cells.Model } : {}),
        ...(cells[constraintsColumn] === 'No' ? { meetsOwnLimits: false } : {}),
        ratePerSecond: parseFigure(cells[throughputColumn], throughputColumn, where),
        latencyMs: findSlowest(cells[latency]) ?? parseFigure(cells[latency], latency, where),
      }
    })
  },
}

/** Finds the slowest of several models, '12.3, [14.9,9.8]', because each has to meet the limit. */
function findSlowest(cell: string | undefined): number | undefined {
  const list = /^[\d.]+, ?\[([\d., ]+)\]$/.exec(cell ?? '')?.[1]
  return list === undefined ? undefined : Math.max(...list.split(',').map(Number))
}
