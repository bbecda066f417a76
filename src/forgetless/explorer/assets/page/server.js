"use strict";
/* Python behind the page, where there is one: a server on this machine that `forgetless explore` started. */
const Server = (() => {
  const { token } = JSON.parse(document.getElementById("data").textContent);

  async function ask(action, question) {
    let answer;
    try {
      answer = await fetch(`/api/${action}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Forgetless-Token": token },
        body: JSON.stringify(question),
      });
    } catch {
      throw new Error("Python does not respond; is forgetless explore still running?");
    }
    const found = await answer.json().catch(() => ({ error: `Python responded with ${answer.status}` }));
    if (found.error) throw new Error(found.error);
    return found;
  }

  return { available: !!token, ask };
})();
