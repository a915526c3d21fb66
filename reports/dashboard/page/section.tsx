/** Hooks for the page's state, and `Section`, which the schedule renders. */
import { createContext, type FunctionComponent } from 'preact'
import { useContext, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks'
import type { Answer } from './answer.ts'
import type { App } from './app.ts'

export const AppContext = createContext<App | undefined>(undefined)

/** The page state for event handlers. Its changes do not render the component again. */
export const useApp = (): App => useContext(AppContext)!

/** The page state for rendering. Every change renders the component again. */
export function useLiveApp(): App {
  const app = useApp()
  const [, rerender] = useReducer((count: number) => count + 1, 0)
  useLayoutEffect(() => app.watch(() => rerender(undefined)), [app])
  return app
}

/**
 * A section of the page, rendered by `SectionSchedule`. A section without content is not displayed.
 * @param showsPreliminary also renders the preliminary ranking, of only the best trials
 */
export function Section({
  id,
  class: name,
  label,
  showsPreliminary,
  content: Content,
}: {
  readonly id?: string
  readonly class?: string
  readonly label?: string
  readonly showsPreliminary?: boolean
  readonly content: FunctionComponent<{ readonly answer: Answer }>
}) {
  const { sections } = useApp()
  const element = useRef<HTMLElement>(null)
  const [answer, show] = useState<Answer>()
  useLayoutEffect(() => sections.add({ element: element.current!, showsPreliminary, show }), [])
  return (
    <section ref={element} id={id} class={name} aria-label={label}>
      {answer && <Content answer={answer} />}
    </section>
  )
}
