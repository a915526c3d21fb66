/** Every experiment of the store: found by words and tags, archived, deleted. */
import { useLayoutEffect, useState } from 'preact/hooks'
import { hasAllWords, splitSearchField } from '../../word-search.ts'
import type { ExperimentEntry, ExperimentOutcome } from '../data/page-data.ts'
import { Table, Tag } from './elements.tsx'
import { ExperimentActions } from './experiment-actions.tsx'
import { listExperiments, listOutcomes } from './source.ts'
import { ThemeButton } from './theme-button.tsx'

/** Filter of the list, which the address of the page contains. */
interface ListQuestion {
  readonly words: string
  readonly tag: string
  readonly archived: boolean
}

interface Store {
  readonly experiments: readonly ExperimentEntry[]
  readonly outcomes: ReadonlyMap<string, ExperimentOutcome>
  readonly writable: boolean
}

/** The list, in place of an experiment. */
export function ExperimentsPage() {
  const [store, setStore] = useState<Store>({
    experiments: [],
    outcomes: new Map(),
    writable: false,
  })
  const [asked, ask] = useState(() => parseListQuestion(location.search))
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
  useLayoutEffect(() => history.replaceState(null, '', formatListAddress(asked)), [asked])
  const listed = store.experiments
    .filter((one) => isAsked(one, store.outcomes.get(one.id), asked))
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
          <Filters asked={asked} ask={ask} experiments={store.experiments} kept={listed.length} />
          <List kept={listed} store={store} changed={() => void load()} problem={setProblem} />
        </section>
      </main>
    </>
  )
}

function parseListQuestion(search: string): ListQuestion {
  const query = new URLSearchParams(search)
  return {
    words: query.get('words') ?? '',
    tag: query.get('tag') ?? '',
    archived: query.get('archived') === 'true',
  }
}

function formatListAddress({ words, tag, archived }: ListQuestion): string {
  const query = new URLSearchParams({
    ...(words && { words }),
    ...(tag && { tag }),
    ...(archived && { archived: 'true' }),
  })
  return `/experiments${query.size > 0 ? `?${query}` : ''}`
}

function isAsked(
  one: ExperimentEntry,
  outcome: ExperimentOutcome | undefined,
  { words, tag, archived }: ListQuestion,
): boolean {
  const { id, name, state, provenance, annotation } = one
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
  asked,
  ask,
  experiments,
  kept,
}: {
  asked: ListQuestion
  ask(asked: ListQuestion): void
  experiments: readonly ExperimentEntry[]
  kept: number
}) {
  const tags = new Set(experiments.flatMap((one) => one.annotation?.tags ?? []))
  if (asked.tag !== '') tags.add(asked.tag)
  return (
    <div class="filters">
      <input
        type="search"
        id="experiment-filter"
        placeholder="bert confirmed A100"
        aria-label="Find experiments"
        value={asked.words}
        onInput={({ currentTarget }) => ask({ ...asked, words: currentTarget.value })}
      />
      <select
        aria-label="Filter by tag"
        value={asked.tag}
        onChange={({ currentTarget }) => ask({ ...asked, tag: currentTarget.value })}
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
          checked={asked.archived}
          onChange={({ currentTarget }) => ask({ ...asked, archived: currentTarget.checked })}
        />
        show archived
      </label>
      <span class="count" role="status">
        {kept === experiments.length ? kept : `${kept} of ${experiments.length}`}
      </span>
    </div>
  )
}

function List({
  kept,
  store: { experiments, outcomes, writable },
  changed,
  problem,
}: {
  kept: readonly ExperimentEntry[]
  store: Store
  changed(): void
  problem(message: string): void
}) {
  if (kept.length === 0)
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
      rows={kept.map((one) => {
        const outcome = outcomes.get(one.id)
        return [
          <Name entry={one} />,
          <span class="unbroken">{one.createdAt.slice(0, 16).replace('T', ' ')}</span>,
          <span class="unbroken">{outcome?.slo}</span>,
          outcome?.text ?? '...',
          <div>
            {one.annotation?.tags.map((tag) => (
              <Tag key={tag} text={tag} />
            ))}
            {one.annotation?.note !== undefined && <p class="written">{one.annotation.note}</p>}
          </div>,
          ...(writable
            ? [
                <ExperimentActions
                  id={one.id}
                  trials={one.trials}
                  archived={one.annotation?.archivedAt !== undefined}
                  running={one.state === 'running'}
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
