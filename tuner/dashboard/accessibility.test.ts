/** The page by WCAG AA, as axe reads it, in both themes. */
import { expect, test } from 'vitest'
import { violationsOf } from '../../reports/axe.contract.ts'
import { describeInChromium } from './in-chromium.contract.ts'

describeInChromium('the dashboard for everyone', (its) => {
  test.each(['light', 'dark'] as const)(
    'keeps WCAG AA in the %s: the page, what is one click away, a trial, a comparison, on a phone',
    async (theme) => {
      await its.page.emulateMedia({ colorScheme: theme })
      expect(await violationsOf(its.page), 'the page').toEqual([])
      for (const details of await its.page.locator('main details:not([open]) > summary').all())
        if (await details.isVisible()) await details.click()
      await its.page.locator('#compare-with').selectOption('older-0001')
      await its.page.getByRole('heading', { name: 'Measured in both' }).waitFor()
      expect(await violationsOf(its.page), 'opened, with a comparison').toEqual([])
      await its.page.locator('#trials tbody tr:not(.spacer) .link').first().click()
      await its.page.locator('dialog .outcome').waitFor()
      expect(await violationsOf(its.page), 'a trial').toEqual([])
      await its.page.getByRole('button', { name: 'Close' }).click()
      await its.page.setViewportSize({ width: 390, height: 844 })
      expect(await violationsOf(its.page), 'a phone').toEqual([])
    },
  )

  test('what is too pale, or has no name, would be found', async () => {
    await its.page.evaluate(`{
      const pale = document.createElement('p')
      Object.assign(pale.style, { color: '#999', background: '#fff' })
      pale.textContent = 'pale'
      document.querySelector('main').append(pale, document.createElement('button'))
    }`)
    expect((await violationsOf(its.page)).map((line) => line.split(':')[0])).toEqual([
      'button-name',
      'color-contrast',
    ])
  })

  test.each(['light', 'dark'] as const)(
    'the list of experiments keeps it in the %s, with a question asked, and on a phone',
    async (theme) => {
      await its.page.emulateMedia({ colorScheme: theme })
      await its.open(its.page, `${its.base}experiments`)
      expect(await violationsOf(its.page), 'the list').toEqual([])
      await its.page.getByRole('button', { name: 'Delete older-0001' }).click()
      expect(await violationsOf(its.page), 'a question').toEqual([])
      await its.page.keyboard.press('Escape')
      await its.page.setViewportSize({ width: 390, height: 844 })
      expect(await violationsOf(its.page), 'a phone').toEqual([])
    },
  )

  test('a page that is not there keeps it too', async () => {
    await its.page.goto(`${its.base}?experiment=gone`)
    expect(await violationsOf(its.page)).toEqual([])
    its.problems.length = 0
  })
})
