/** Notes, tags and the list of experiments, in Chromium. */
import { expect, test } from 'vitest'
import { describeInChromium } from './in-chromium.contract.ts'

describeInChromium('the list of experiments, notes and tags', (its) => {
  test('a note and a tag are written beside the experiment and a trial, are there for another page, and are found', async () => {
    const { page } = its
    const beside = page.getByLabel('Note and tags')
    await beside.getByLabel('Add a tag to the experiment').fill('nightly')
    await page.keyboard.press('Enter')
    await beside.getByText('nightly').waitFor()
    await beside.getByRole('button', { name: 'Add a note' }).click()
    await beside.getByLabel('Note on the experiment').fill('after the driver update <b>')
    await beside.getByRole('button', { name: 'Save' }).click()
    await beside.getByText('after the driver update <b>').waitFor()

    await page.getByRole('button', { name: 'Open trial 2' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Add a tag to trial 2').fill('odd')
    await page.keyboard.press('Enter')
    await dialog.locator('.tag', { hasText: 'odd' }).waitFor()
    await page.keyboard.press('Escape')

    const other = await its.newPage()
    await its.open(other, `${its.base}?experiment=${its.sample.id}`)
    await other.getByText('after the driver update <b>').waitFor()
    await other.getByLabel('Filter the trials').fill('odd')
    await other.locator('#trials .count', { hasText: '1 of' }).waitFor()
    // It was not opened by the address that may write.
    expect(await other.getByLabel('Add a tag to the experiment').count()).toBe(0)
    await other.close()
  })

  test('the list is searched by words and tags, which stand in its address; what is archived is out of it until asked for', async () => {
    const { page } = its
    await its.open(page, `${its.base}experiments`)
    const rows = page.locator('#experiments tbody tr')
    expect(await rows.count()).toBe(2)
    await page.getByText('per million requests').first().waitFor()
    await page.getByLabel('Find experiments').fill('older done')
    await expect.poll(() => rows.count()).toBe(1)
    expect(new URL(page.url()).searchParams.get('words')).toBe('older done')

    await page.getByRole('button', { name: 'Archive older-0001' }).click()
    await page.getByText('No experiment matches the filter.').waitFor()
    await page.getByLabel('show archived').check()
    await page.getByRole('button', { name: 'Restore older-0001' }).waitFor()
    const again = await its.newPage()
    await its.open(again, page.url())
    expect(await again.locator('#experiments tbody tr').count()).toBe(1)
    await again.close()
    await page.getByRole('button', { name: 'Restore older-0001' }).click()
    await page.getByRole('button', { name: 'Archive older-0001' }).waitFor()
  })

  test('deleting is asked about first, and the way out is what Enter does', async () => {
    const { page } = its
    await its.open(page, `${its.base}experiments`)
    await page.getByRole('button', { name: 'Delete older-0001' }).click()
    const dialog = page.getByRole('dialog', {
      name: 'Delete older-0001 with its 7 trials permanently?',
    })
    await dialog.waitFor()
    await page.keyboard.press('Enter')
    await dialog.waitFor({ state: 'detached' })
    expect(await page.locator('#experiments tbody tr').count()).toBe(2)
    await page.getByRole('button', { name: 'Delete older-0001' }).click()
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await expect.poll(() => page.locator('#experiments tbody tr').count()).toBe(1)
    expect(await page.getByRole('button', { name: `Delete ${its.sample.id}` }).isDisabled()).toBe(
      true,
    )
  })
})
