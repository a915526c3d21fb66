/**
 * What axe finds wrong with a page by WCAG 2 A and AA: contrast, names, roles, order of headings.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const rules = { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }

interface Found {
  readonly violations: readonly {
    readonly id: string
    readonly nodes: readonly {
      readonly target: readonly string[]
      readonly failureSummary: string
    }[]
  }[]
}

/** A line for each element that breaks a rule, with what would mend it. */
export async function violationsOf(page: Page): Promise<string[]> {
  await page.evaluate(source)
  const { violations } = (await page.evaluate(
    `axe.run(document, ${JSON.stringify(rules)})`,
  )) as Found
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(
      ({ target, failureSummary }) =>
        `${id}: ${target.join(' ')}: ${failureSummary.replaceAll(/\s+/g, ' ')}`,
    ),
  )
}
