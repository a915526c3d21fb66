/** The page of one experiment: sections in the order of a reader's questions. */
import { useLayoutEffect } from 'preact/hooks'
import type { ExperimentEntry } from '../data/page-data.ts'
import { Section, useApp, useLiveApp } from './section.tsx'
import { Annotations } from './sections/annotations.tsx'
import { Capacity } from './sections/capacity.tsx'
import { Compare } from './sections/compare.tsx'
import { CompareTrials } from './sections/compare-trials.tsx'
import { Curves } from './sections/curves.tsx'
import { Decision } from './sections/decision.tsx'
import { TrialDialog } from './sections/details.tsx'
import { Exports } from './sections/exports.tsx'
import { ImportanceSection } from './sections/importance-section.tsx'
import { PaperHead } from './sections/paper-head.tsx'
import { Pareto } from './sections/pareto.tsx'
import { Stages } from './sections/stages.tsx'
import { Timeline } from './sections/timeline.tsx'
import { Trials } from './sections/trials.tsx'
import { formatPageTitle, Verdict } from './sections/verdict.tsx'
import { WhatIf } from './sections/whatif.tsx'
import { ThemeButton } from './theme-button.tsx'

const links = [
  ['verdict', 'Overview'],
  ['pareto', 'SLO trade-off'],
  ['decide', 'Cost and capacity'],
  ['curves', 'Load curves'],
  ['capacity', 'Capacity plan'],
  ['matters', 'Parameter importance'],
  ['trials', 'Trials'],
  ['export', 'Export'],
] as const

export function Page() {
  const app = useApp()
  return (
    <>
      <header class="top">
        <a class="brand" href="#verdict">
          tune
        </a>
        <ExperimentChoice />
        <State />
        <nav aria-label="Sections">
          {links.map(([id, text]) => (
            <a key={id} href={`#${id}`}>
              {text}
            </a>
          ))}
          {app.online && <a href="/experiments">All experiments</a>}
        </nav>
        <ThemeButton changed={() => app.renderState()} />
      </header>
      <main>
        <Notice />
        <Section class="paper-only" content={PaperHead} />
        <Section class="verdict" label="Verdict" showsPreliminary content={Verdict} />
        <Section
          class="whatif"
          label="What if: SLO, objective, demand and prices"
          showsPreliminary
          content={WhatIf}
        />
        <Section id="pareto" label="Pareto front" content={Pareto} />
        <div class="decide">
          <Section id="decide" label="Cost and capacity" content={Decision} />
          <Section id="curves" label="Load curves" content={Curves} />
        </div>
        <Section id="stages" label="Stages" content={Stages} />
        <Section id="capacity" label="Capacity plan" content={Capacity} />
        <Section class="beside" label="Note and tags" content={Annotations} />
        <Section id="matters" label="Parameter importance" content={ImportanceSection} />
        <Section id="trials" label="Trials" content={Trials} />
        <Section id="compare-trials" label="Trials side by side" content={CompareTrials} />
        <Section id="timeline" label="Timeline" content={Timeline} />
        <Section id="compare" label="Compare" content={Compare} />
        <Section id="export" label="Export" content={Exports} />
      </main>
      <TrialDialog />
    </>
  )
}

/** Experiments, newest first, without the archived ones. */
function ExperimentChoice() {
  const { state, chosen, answer } = useLiveApp()
  const offered = state.experiments
    .filter(({ id, annotation }) => id === chosen || annotation?.archivedAt === undefined)
    .reverse()
  const id = chosen || answer?.experiment.id
  return (
    <select
      id="experiment"
      aria-label="Experiment"
      value={id}
      onChange={({ currentTarget }) =>
        location.assign(`/?experiment=${encodeURIComponent(currentTarget.value)}`)
      }
    >
      {offered.length === 0 && <option value={id}>{id}</option>}
      {offered.map((e) => (
        <option key={e.id} value={e.id}>
          {describeEntry(e)}
        </option>
      ))}
    </select>
  )
}

const describeEntry = ({ id, provenance, createdAt }: ExperimentEntry): string =>
  `${id} · ${provenance} · ${createdAt.slice(0, 16).replace('T', ' ')}`

const stateWords = {
  running: '▶ running',
  interrupted: '‖ interrupted',
  done: '■ done',
  failed: '✕ failed',
} as const

/** Shows the progress of the experiment, here and in the page's title. */
function State() {
  const { answer, online } = useLiveApp()
  const title = answer && formatPageTitle(answer)
  useLayoutEffect(() => {
    if (title !== undefined) document.title = title
  }, [title])
  if (!answer) return <span class="state" role="status" />
  const { experiment, trials, isLoading } = answer
  const { state, maxTrials } = experiment
  const count = state === 'running' ? `, ${trials.length} of at most ${maxTrials}` : ''
  const source = !online ? ', saved copy' : isLoading ? ', loading' : ''
  return (
    <span class={`state ${state}`} role="status">{`${stateWords[state]}${count}${source}`}</span>
  )
}

function Notice() {
  const { problem } = useLiveApp()
  return (
    <p class="problem" role="alert" hidden={problem === ''}>
      {problem}
    </p>
  )
}
