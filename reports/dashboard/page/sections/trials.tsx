/** The table of trials: only the rows in view exist, so that 100,000 scroll as ten do. */
import { useMemo, useRef, useState } from 'preact/hooks'
import { experimentItself } from '../../../../trials/annotation.ts'
import { sloName } from '../../../format.ts'
import { hasAllWords, splitSearchField } from '../../../word-search.ts'
import { maxSideBySide } from '../../data/address.ts'
import type { Answer } from '../answer.ts'
import { useApp } from '../section.tsx'
import {
  absent,
  createRows,
  kinds,
  listColumns,
  type TrialColumn,
  type TrialRow,
} from './trial-rows.ts'

const rowHeightPx = 32
/** Rows beyond each edge of the scroller. */
const spareRows = 8
const maxRowsOnPaper = 500
/** Columns whose figures fit on A4 without a break. */
const maxUnbrokenColumns = 13

interface Filter {
  readonly words: string
  /** '': all trials. */
  readonly kind: string
}
interface Sort {
  readonly column: number
  readonly descending: boolean
}

export function Trials({ answer }: { answer: Answer }) {
  const { slo } = answer.whatIf
  const [filter, setFilter] = useState<Filter>({ words: '', kind: '' })
  const [sort, setSort] = useState<Sort>({ column: 0, descending: false })
  const optional = listOptionalColumns(answer)
  const columns = useMemo(
    () => listColumns(slo, optional),
    [sloName(slo), slo.limits && slo.limitMs, ...Object.values(optional)],
  )
  const rows = useMemo(
    () => createRows(answer),
    [answer.recommendation, answer.trials, answer.annotations],
  )
  const view = useMemo(
    () => sortRows(keepRows(rows, filter), columns[sort.column] ?? columns[0]!, sort.descending),
    [rows, filter, columns, sort],
  )
  const [some, all] = [view, rows].map(({ length }) => length.toLocaleString('en-US'))
  return (
    <>
      <header>
        <h2>Trials</h2>
        <div class="filters">
          <input
            type="search"
            id="trial-filter"
            placeholder="batch 8, T4, out of memory"
            aria-label="Filter the trials"
            value={filter.words}
            onInput={({ currentTarget }) => setFilter({ ...filter, words: currentTarget.value })}
          />
          <select
            aria-label="Which trials"
            value={filter.kind}
            onChange={({ currentTarget }) => setFilter({ ...filter, kind: currentTarget.value })}
          >
            <option value="">all trials</option>
            {Object.entries(kinds).map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
          <span class="count" role="status">
            {some === all ? all : `${some} of ${all}`}
          </span>
        </div>
      </header>
      <Rows view={view} columns={columns} sort={sort} setSort={setSort} answer={answer} />
    </>
  )
}

function listOptionalColumns({ candidates, annotations }: Answer) {
  return {
    qualities: candidates.some((c) => c.quality !== undefined),
    tokens: candidates.some((c) => c.tokens),
    tags: [...annotations.keys()].some((trial) => trial !== experimentItself),
  }
}

function keepRows(rows: readonly TrialRow[], filter: Filter): readonly TrialRow[] {
  const words = splitSearchField(filter.words)
  if (words.length === 0 && filter.kind === '') return rows
  return rows.filter(({ trial, label, kind, outcome, annotation }) => {
    const texts = [
      String(trial.number),
      label,
      kinds[kind],
      outcome,
      ...(annotation?.tags ?? []),
      annotation?.note,
    ]
    return (filter.kind === '' || kind === filter.kind) && hasAllWords(words, texts)
  })
}

/** Sorts rows; those without a value are last in both directions. */
function sortRows(
  rows: readonly TrialRow[],
  { key }: TrialColumn,
  descending: boolean,
): readonly TrialRow[] {
  const direction = descending ? -1 : 1
  return rows
    .map((row) => ({ row, key: key(row) }))
    .sort((a, b) =>
      a.key === b.key
        ? 0
        : a.key === absent
          ? 1
          : b.key === absent
            ? -1
            : a.key < b.key
              ? -direction
              : direction,
    )
    .map(({ row }) => row)
}

/** The rows in view; on paper from the first one on. */
function Rows({
  view,
  columns,
  sort,
  setSort,
  answer,
}: {
  view: readonly TrialRow[]
  columns: readonly TrialColumn[]
  sort: Sort
  setSort(sort: Sort): void
  answer: Answer
}) {
  const scroller = useRef<HTMLDivElement>(null)
  const [scrolled, setScrolled] = useState(0)
  const { isPrinting } = answer
  const rowsInView = Math.ceil((scroller.current?.clientHeight || 400) / rowHeightPx)
  const count = isPrinting ? maxRowsOnPaper : rowsInView + 2 * spareRows
  const from = isPrinting ? 0 : Math.max(0, Math.min(scrolled, view.length - count))
  const to = Math.min(view.length, from + count)
  return (
    <div
      ref={scroller}
      class={columns.length > maxUnbrokenColumns ? 'scroller many' : 'scroller'}
      tabIndex={0}
      role="group"
      aria-label="Table of trials"
      onScroll={({ currentTarget }) =>
        setScrolled(Math.floor(currentTarget.scrollTop / rowHeightPx) - spareRows)
      }
    >
      <table aria-rowcount={view.length + 1}>
        <caption class="unseen">Trials</caption>
        <thead>
          <Head columns={columns} sort={sort} setSort={setSort} />
        </thead>
        <tbody>
          <Spacer rows={from} />
          {view.slice(from, to).map((row, i) => (
            <Row
              key={row.trial.number}
              row={row}
              index={from + i}
              columns={columns}
              sideBySide={answer.sideBySide}
            />
          ))}
          <Spacer rows={isPrinting ? 0 : view.length - to} />
        </tbody>
      </table>
    </div>
  )
}

/** Stands for rows out of view. */
const Spacer = ({ rows }: { rows: number }) => (
  // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a row of a table takes no focus
  <tr class="spacer" aria-hidden="true" style={{ height: `${rows * rowHeightPx}px` }}>
    <td />
  </tr>
)

const Head = ({
  columns,
  sort,
  setSort,
}: {
  columns: readonly TrialColumn[]
  sort: Sort
  setSort(sort: Sort): void
}) => (
  <tr>
    <th class="pick" scope="col">
      <span class="unseen">side by side</span>
    </th>
    {columns.map(({ name, numeric }, column) => {
      const isSorted = sort.column === column
      const descending = isSorted && sort.descending
      const order = isSorted ? (descending ? 'descending' : 'ascending') : 'none'
      return (
        // Chromium leaves buttons out of a table's head where a page repeats it: paper takes the
        // name.
        <th
          key={name}
          class={numeric ? 'n' : undefined}
          scope="col"
          aria-sort={order}
          data-name={name}
        >
          <button
            class="quiet"
            type="button"
            onClick={() => setSort({ column, descending: isSorted && !descending })}
          >
            {name}
            {isSorted && (descending ? ' ↓' : ' ↑')}
          </button>
        </th>
      )
    })}
  </tr>
)

function Row({
  row,
  index,
  columns,
  sideBySide,
}: {
  row: TrialRow
  index: number
  columns: readonly TrialColumn[]
  sideBySide: ReadonlySet<number>
}) {
  const app = useApp()
  const { number } = row.trial
  const isPicked = sideBySide.has(number)
  const pick = () =>
    app.pickTrials(
      isPicked ? [...sideBySide].filter((one) => one !== number) : [...sideBySide, number],
    )
  const open = ({ target }: Event) =>
    (target as Element).closest('.pick') === null && app.openTrial(number)
  return (
    <tr class={row.kind} aria-rowindex={index + 2} onClick={open}>
      <td class="pick">
        <input
          type="checkbox"
          checked={isPicked}
          disabled={!isPicked && sideBySide.size >= maxSideBySide}
          aria-label={`Compare trial ${number} with others`}
          onChange={pick}
        />
      </td>
      {columns.map(({ name, numeric, cell }, i) => {
        const text = cell(row)
        return (
          <td
            key={name}
            class={numeric ? 'n' : undefined}
            title={text.length > 24 ? text : undefined}
          >
            {i === 1 ? (
              <button class="quiet link" type="button" aria-label={`Open trial ${text}`}>
                {text}
              </button>
            ) : (
              text
            )}
          </td>
        )
      })}
    </tr>
  )
}
