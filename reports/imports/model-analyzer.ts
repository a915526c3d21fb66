/**
 * Triton's Model Analyzer: metrics-model-inference.csv, a row for each configuration of a model and
 * each load. Closed loop by concurrency, or by request rate.
 */

import { percentileName } from '../../profiler/model/slo.ts'
import { readHeaderLine, readTable } from '../../trials/table-text.ts'
import { each, figure, type ToolPoint, type ToolReader, wanted } from './tool-point.ts'

const throughput = 'Throughput (infer/sec)'
const mark = 'Model Config Path'
const satisfies = 'Satisfies Constraints'

export const modelAnalyzer: ToolReader = {
  tool: 'Model Analyzer',
  read(source, { metric, percentile }) {
    if (!readHeaderLine(source).includes(mark)) return undefined
    const { columns, rows } = readTable(source)
    const name =
      metric === 'e2e' ? `${percentileName(percentile)} Latency (ms)` : `column of ${metric}`
    const latency = wanted(
      columns.find((column) => column === name),
      `column '${name}'`,
      source.file,
      columns.filter((column) => /latency/i.test(column)),
    )
    wanted(
      columns.find((column) => column === throughput) ?? undefined,
      `column '${throughput}'`,
      source.file,
      columns,
    )
    return each(rows, ({ where, cells }): ToolPoint => {
      const plain = (column: string) =>
        /^\d+$/.test(cells[column] ?? '') ? Number(cells[column]) : cells[column]
      // '2:GPU', '1/GPU', '2/GPU + 1/CPU': the count in front. Of several models there is one for
      // each: the path tells them apart.
      const instances = Number(/^\s*(\d+)[:/][^,]*$/.exec(cells['Instance Group'] ?? '')?.[1])
      const batch = plain('Max Batch Size')
      return {
        where,
        configuration: {
          configuration: cells[mark] ?? '',
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
        ...(cells[satisfies] === 'No' ? { keepsOwnLimits: false } : {}),
        ratePerSecond: figure(cells[throughput], throughput, where),
        latencyMs: worstOf(cells[latency]) ?? figure(cells[latency], latency, where),
      }
    })
  },
}

/** Of several models, '12.3, [14.9,9.8]', the slowest: each keeps the limit. */
function worstOf(cell: string | undefined): number | undefined {
  const list = /^[\d.]+, ?\[([\d., ]+)\]$/.exec(cell ?? '')?.[1]
  return list === undefined ? undefined : Math.max(...list.split(',').map(Number))
}
