/** How components reach the page's state. */
import { createContext, type FunctionComponent } from 'preact'
import { useContext, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks'
import type { Answer } from './answer.ts'
import type { App } from './app.ts'

export const AppContext = createContext<App | undefined>(undefined)

/** The state, to act on; its changes do not render the component again. */
export const useApp = (): App => useContext(AppContext)!

/** The state as it is now: every change renders the component again. */
export function useLiveApp(): App {
  const app = useApp()
  const [, changed] = useReducer((count: number) => count + 1, 0)
  useLayoutEffect(() => app.watch(() => changed(undefined)), [app])
  return app
}

/**
 * A section of the page, rendered by the schedule. A section without content is not displayed.
 * @param showsQuickAnswer also renders a quick answer, which ranks only the best trials
 */
export function Part({
  id,
  class: name,
  label,
  showsQuickAnswer,
  of: Content,
}: {
  readonly id?: string
  readonly class?: string
  readonly label?: string
  readonly showsQuickAnswer?: boolean
  readonly of: FunctionComponent<{ readonly answer: Answer }>
}) {
  const { parts } = useApp()
  const element = useRef<HTMLElement>(null)
  const [answer, show] = useState<Answer>()
  useLayoutEffect(() => parts.add({ element: element.current!, showsQuickAnswer, show }), [])
  return (
    <section ref={element} id={id} class={name} aria-label={label}>
      {answer && <Content answer={answer} />}
    </section>
  )
}
