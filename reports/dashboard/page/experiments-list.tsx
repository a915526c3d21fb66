/** List of all experiments in the store, with a filter, and buttons to archive and delete them. */
import { useLayoutEffect, useState } from 'preact/hooks'
import { hasAllWords, splitSearchField } from '../../word-search.ts'
import type { ExperimentEntry, ExperimentOutcome } from '../data/page-data.ts'
import { Table, Tag } from './elements.tsx'
import { ExperimentActions } from './experiment-actions.tsx'
import { listExperiments, listOutcomes } from './source.ts'
import { ThemeButton } from './theme-button.tsx'

/** Filter of the list, which the address of the page contains. */
interface ListFilter {
  readonly words: string
  readonly tag: string
  readonly archived: boolean
}

interface Store {
  readonly experiments: readonly ExperimentEntry[]
  readonly outcomes: ReadonlyMap<string, ExperimentOutcome>
  readonly writable: boolean
}

/** The page that lists the experiments. */
export function ExperimentsPage() {
  const [store, setStore] = useState<Store>({
    experiments: [],
    outcomes: new Map(),
    writable: false,
  })
  const [filter, setFilter] = useState(() => parseListFilter(location.search))
  const [problem, setProblem] = useState('')
  const load = async () => {
    try {
      const { experiments, writable } = await listExperiments()
      setStore(({ outcomes }) => ({ experiments, writable, outcomes }))
      const outcomes = new Map((await listOutcomes()).map((outcome) => [outcome.id, outcome]))
      setStore({ experiments, writable, outcomes })
    } catch (error) {
      setProblem(`The experiments could not be read: ${(error as Error).message}`)
    }
  }
  useLayoutEffect(() => {
    document.title = 'Experiments - tune'
    void load().then(() => {
      document.documentElement.dataset.ready = 'true'
    })
  }, [])
  useLayoutEffect(() => history.replaceState(null, '', formatListAddress(filter)), [filter])
  const listed = store.experiments
    .filter((experiment) => matchesFilter(experiment, store.outcomes.get(experiment.id), filter))
    .reverse()
  return (
    <>
      <header class="top">
        <a class="brand" href="/">
          tune
        </a>
        <h1>Experiments</h1>
        <ThemeButton />
      </header>
      <main>
        <p class="problem" role="alert" hidden={problem === ''}>
          {problem}
        </p>
        <section class="experiments" id="experiments" aria-label="Experiments">
          <Filters
            filter={filter}
            setFilter={setFilter}
            experiments={store.experiments}
            listedCount={listed.length}
          />
          <List listed={listed} store={store} changed={() => void load()} problem={setProblem} />
        </section>
      </main>
    </>
  )
}

function parseListFilter(search: string): ListFilter {
  const query = new URLSearchParams(search)
  return {
    words: query.get('words') ?? '',
    tag: query.get('tag') ?? '',
    archived: query.get('archived') === 'true',
  }
}

function formatListAddress({ words, tag, archived }: ListFilter): string {
  const query = new URLSearchParams({
    ...(words && { words }),
    ...(tag && { tag }),
    ...(archived && { archived: 'true' }),
  })
  return `/experiments${query.size > 0 ? `?${query}` : ''}`
}

function matchesFilter(
  experiment: ExperimentEntry,
  outcome: ExperimentOutcome | undefined,
  { words, tag, archived }: ListFilter,
): boolean {
  const { id, name, state, provenance, annotation } = experiment
  if (annotation?.archivedAt !== undefined && !archived) return false
  if (tag !== '' && !annotation?.tags.includes(tag)) return false
  const texts = [
    id,
    name,
    state,
    provenance,
    outcome?.slo,
    outcome?.text,
    annotation?.note,
    ...(annotation?.tags ?? []),
  ]
  return hasAllWords(splitSearchField(words), texts)
}

function Filters({
  filter,
  setFilter,
  experiments,
  listedCount,
}: {
  filter: ListFilter
  setFilter(filter: ListFilter): void
  experiments: readonly ExperimentEntry[]
  listedCount: number
}) {
  const tags = new Set(experiments.flatMap((experiment) => experiment.annotation?.tags ?? []))
  if (filter.tag !== '') tags.add(filter.tag)
  return (
    <div class="filters">
      <input
        type="search"
        id="experiment-filter"
        placeholder="bert confirmed A100"
        aria-label="Find experiments"
        value={filter.words}
        onInput={({ currentTarget }) => setFilter({ ...filter, words: currentTarget.value })}
      />
      <select
        aria-label="Filter by tag"
        value={filter.tag}
        onChange={({ currentTarget }) => setFilter({ ...filter, tag: currentTarget.value })}
      >
        <option value="">any tag</option>
        {[...tags].sort().map((tag) => (
          <option key={tag} value={tag}>
            {tag}
          </option>
        ))}
      </select>
      <label class="tick">
        <input
          type="checkbox"
          checked={filter.archived}
          onChange={({ currentTarget }) =>
            setFilter({ ...filter, archived: currentTarget.checked })
          }
        />
        show archived
      </label>
      <span class="count" role="status">
        {listedCount === experiments.length
          ? listedCount
          : `${listedCount} of ${experiments.length}`}
      </span>
    </div>
  )
}

function List({
  listed,
  store: { experiments, outcomes, writable },
  changed,
  problem,
}: {
  listed: readonly ExperimentEntry[]
  store: Store
  changed(): void
  problem(message: string): void
}) {
  if (listed.length === 0)
    return (
      <p class="note">
        {experiments.length === 0
          ? 'The store has no experiments yet.'
          : 'No experiment matches the filter.'}
      </p>
    )
  return (
    <Table
      caption="Experiments"
      head={[
        'experiment',
        'started',
        'SLO',
        'result',
        'note and tags',
        ...(writable ? ['change'] : []),
      ]}
      rows={listed.map((experiment) => {
        const outcome = outcomes.get(experiment.id)
        return [
          <Name entry={experiment} />,
          <span class="unbroken">{experiment.createdAt.slice(0, 16).replace('T', ' ')}</span>,
          <span class="unbroken">{outcome?.slo}</span>,
          outcome?.text ?? '...',
          <div>
            {experiment.annotation?.tags.map((tag) => (
              <Tag key={tag} text={tag} />
            ))}
            {experiment.annotation?.note !== undefined && (
              <p class="written">{experiment.annotation.note}</p>
            )}
          </div>,
          ...(writable
            ? [
                <ExperimentActions
                  id={experiment.id}
                  trials={experiment.trials}
                  archived={experiment.annotation?.archivedAt !== undefined}
                  running={experiment.state === 'running'}
                  onChanged={changed}
                  onProblem={problem}
                />,
              ]
            : []),
        ]
      })}
    />
  )
}

function Name({
  entry: { id, name, state, provenance, trials, annotation },
}: {
  entry: ExperimentEntry
}) {
  const details = [
    ...(name === id ? [] : [name]),
    state,
    provenance,
    `${trials.toLocaleString('en-US')} trial${trials === 1 ? '' : 's'}`,
    ...(annotation?.archivedAt === undefined ? [] : ['archived']),
  ]
  return (
    <div class="named">
      <a href={`/?experiment=${encodeURIComponent(id)}`}>{id}</a>
      <small>{details.join(', ')}</small>
    </div>
  )
}
