def test_a(finished_run, life_loss_run, invoke):
    for run in (finished_run, life_loss_run):
        a = invoke("validate", run)
        print(a.stdout)
        assert a.exit_code == 0, a.stdout
