/** Every experiment of the store: found by words and tags, archived, deleted. */
import { wordsFound, wordsOfField } from '../../words-found.ts'
import type { ExperimentEntry, ExperimentOutcome } from '../data.ts'
import { fill, h, table, tagOf } from './dom.ts'
import { experimentActions } from './experiment-actions.ts'
import { listExperiments, listOutcomes } from './source.ts'

/** What is asked of the list; it stands in the address. */
interface Asked {
  readonly words: string
  readonly tag: string
  readonly archived: boolean
}

interface State {
  experiments: readonly ExperimentEntry[]
  outcomes: ReadonlyMap<string, ExperimentOutcome>
  writable: boolean
}

/** Shows the list in place of an experiment. */
export async function showExperiments(root: HTMLElement, themeButton: HTMLElement): Promise<void> {
  const state: State = { experiments: [], outcomes: new Map(), writable: false }
  const notice = h('p', { class: 'problem', attributes: { role: 'alert' } })
  const problem = (message: string) => {
    notice.hidden = message === ''
    notice.textContent = message
  }
  const list = h('div', {})
  const filters = filtersOf(askedBy(location.search), draw)
  problem('')
  document.title = 'Experiments - tune'
  fill(
    root,
    h(
      'header',
      { class: 'top' },
      h('a', { class: 'brand', attributes: { href: '/' } }, 'tune'),
      h('h1', {}, 'Experiments'),
      themeButton,
    ),
    h(
      'main',
      {},
      notice,
      h(
        'section',
        { class: 'experiments', attributes: { id: 'experiments', 'aria-label': 'Experiments' } },
        filters.element,
        list,
      ),
    ),
  )

  function draw(): void {
    const asked = filters.asked()
    history.replaceState(null, '', addressOf(asked))
    const kept = [...state.experiments]
      .reverse()
      .filter((one) => isAsked(one, state.outcomes.get(one.id), asked))
    filters.offer(state.experiments, kept.length)
    fill(
      list,
      experimentsTable(kept, state, () => void load(), problem),
    )
  }
  async function load(): Promise<void> {
    try {
      const { experiments, writable } = await listExperiments()
      Object.assign(state, { experiments, writable })
      draw()
      state.outcomes = new Map((await listOutcomes()).map((outcome) => [outcome.id, outcome]))
      draw()
    } catch (error) {
      problem(`The experiments could not be read: ${(error as Error).message}`)
    }
  }
  await load()
  document.documentElement.dataset.ready = 'true'
}

function askedBy(search: string): Asked {
  const given = new URLSearchParams(search)
  return {
    words: given.get('words') ?? '',
    tag: given.get('tag') ?? '',
    archived: given.get('archived') === 'true',
  }
}

function addressOf({ words, tag, archived }: Asked): string {
  const given = new URLSearchParams({
    ...(words && { words }),
    ...(tag && { tag }),
    ...(archived && { archived: 'true' }),
  })
  return `/experiments${given.size > 0 ? `?${given}` : ''}`
}

function isAsked(
  one: ExperimentEntry,
  outcome: ExperimentOutcome | undefined,
  { words, tag, archived }: Asked,
): boolean {
  const { id, name, state, provenance, annotation } = one
  if (annotation?.archivedAt !== undefined && !archived) return false
  if (tag !== '' && !annotation?.tags.includes(tag)) return false
  const said = [
    id,
    name,
    state,
    provenance,
    outcome?.slo,
    outcome?.text,
    annotation?.note,
    ...(annotation?.tags ?? []),
  ]
  return wordsFound(wordsOfField(words), said)
}

interface Filters {
  readonly element: HTMLElement
  asked(): Asked
  /** Tags that there are to choose from, and how many experiments are shown. */
  offer(experiments: readonly ExperimentEntry[], shown: number): void
}

function filtersOf(first: Asked, changed: () => void): Filters {
  const search = h('input', {
    attributes: {
      type: 'search',
      id: 'experiment-filter',
      placeholder: 'bert confirmed A100',
      'aria-label': 'Find experiments',
      value: first.words,
    },
    on: { input: changed },
  })
  const tag = h('select', {
    attributes: { 'aria-label': 'Filter by tag' },
    on: { change: changed },
  })
  const archived = h('input', {
    attributes: { type: 'checkbox', checked: first.archived },
    on: { change: changed },
  })
  const count = h('span', { class: 'count', attributes: { role: 'status' } })
  let offered = ''
  let chosen = first.tag
  return {
    element: h(
      'div',
      { class: 'filters' },
      search,
      tag,
      h('label', { class: 'tick' }, archived, 'show archived'),
      count,
    ),
    asked: () => ({
      words: search.value,
      tag: offered === '' ? chosen : tag.value,
      archived: archived.checked,
    }),
    offer(experiments, shown) {
      const tags = [
        ...new Set([
          ...experiments.flatMap((one) => one.annotation?.tags ?? []),
          ...(chosen === '' ? [] : [chosen]),
        ]),
      ].sort()
      const key = JSON.stringify(tags)
      if (key !== offered) {
        if (offered !== '') chosen = tag.value
        offered = key
        const option = (value: string, text: string) =>
          h('option', { attributes: { value, selected: value === chosen } }, text)
        fill(tag, option('', 'any tag'), ...tags.map((name) => option(name, name)))
      }
      count.textContent =
        shown === experiments.length ? String(shown) : `${shown} of ${experiments.length}`
    },
  }
}

function experimentsTable(
  kept: readonly ExperimentEntry[],
  { experiments, outcomes, writable }: State,
  changed: () => void,
  problem: (message: string) => void,
): HTMLElement {
  if (kept.length === 0)
    return h(
      'p',
      { class: 'note' },
      experiments.length === 0
        ? 'The store has no experiments yet.'
        : 'No experiment matches the filter.',
    )
  return table(
    ['experiment', 'started', 'SLO', 'result', 'note and tags', ...(writable ? ['change'] : [])],
    kept.map((one) => {
      const { id, name, createdAt, state, provenance, trials, annotation } = one
      const archived = annotation?.archivedAt !== undefined
      const outcome = outcomes.get(id)
      return [
        h(
          'div',
          { class: 'named' },
          h('a', { attributes: { href: `/?experiment=${encodeURIComponent(id)}` } }, id),
          h(
            'small',
            {},
            [
              ...(name === id ? [] : [name]),
              state,
              provenance,
              `${trials.toLocaleString('en-US')} trial${trials === 1 ? '' : 's'}`,
              ...(archived ? ['archived'] : []),
            ].join(', '),
          ),
        ),
        h('span', { class: 'unbroken' }, createdAt.slice(0, 16).replace('T', ' ')),
        h('span', { class: 'unbroken' }, outcome?.slo ?? ''),
        outcome?.text ?? '...',
        h(
          'div',
          {},
          ...(annotation?.tags ?? []).map((tag) => tagOf(tag)),
          annotation?.note !== undefined && h('p', { class: 'written' }, annotation.note),
        ),
        ...(writable
          ? [
              experimentActions(
                { id, trials, archived, running: state === 'running' },
                changed,
                problem,
              ),
            ]
          : []),
      ]
    }),
    [],
    'Experiments',
  )
}
